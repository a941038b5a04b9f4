"""A region removed for good, in every order of events of small cases."""
