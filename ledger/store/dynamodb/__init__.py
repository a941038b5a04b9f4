"""The port over DynamoDB: requests rendered, sent, judged."""
