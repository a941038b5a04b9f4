"""Spans of OpenTelemetry, by the setting `tracing`; nothing here is imported while it is off."""
