"""The embedded engine: all regions in this process, DynamoDB's expressions evaluated by moto."""
