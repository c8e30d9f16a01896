"""What runs came to, counted from their events: figures, alerts, Prometheus and OpenTelemetry."""
