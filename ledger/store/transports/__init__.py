"""What carries a request to DynamoDB: aiobotocore, or the lean transport."""
