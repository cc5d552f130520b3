"""scikit-learn's own tests, run on ours."""
