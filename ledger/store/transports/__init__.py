"""Transports of requests to DynamoDB: aiobotocore, and the lean transport."""
