"""Values shared by all rooms. Modules here import nothing of ours outside this package."""
