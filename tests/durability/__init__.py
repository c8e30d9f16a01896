"""What is left of a publish and of a suspend when the disk, the power or the process fails."""
