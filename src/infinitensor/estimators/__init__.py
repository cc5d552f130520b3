"""The common base of estimators and scores: inputs, and scikit-learn's code for unbuilt names."""
