"""Where archive objects lie: files, S3, memory."""
