"""The pipeline in AWS Lambda, on Kinesis Data Streams and DynamoDB Streams."""
