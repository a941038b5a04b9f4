"""Values and errors as they go over HTTP, the same for commands' JSON, service and client."""
