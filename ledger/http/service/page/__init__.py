"""The page at `/`: static files, which ask the service's own endpoints."""
