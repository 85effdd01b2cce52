"""What runs the stages: Spark over archives, this process over a few logs."""
