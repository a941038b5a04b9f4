"""Places that store archive objects: files, S3, memory."""
