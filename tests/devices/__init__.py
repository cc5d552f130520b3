"""Tests of one part of the house."""
