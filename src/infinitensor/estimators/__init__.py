"""What every estimator and score stands on: inputs, and scikit-learn's code for unbuilt names."""
