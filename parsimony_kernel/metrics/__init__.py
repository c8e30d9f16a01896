"""Metrics of runs, computed from their events: figures, alerts, Prometheus and OpenTelemetry."""
