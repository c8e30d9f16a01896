"""Values only: what every room says to every other. Nothing here imports anything of ours."""
