"""Why a failure happened, and which hint helps."""
