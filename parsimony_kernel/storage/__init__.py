"""What happened in every run, durably, and who may take a question up."""
