"""Reports of diagnoses: one module for each format. Nothing here imports torch."""
