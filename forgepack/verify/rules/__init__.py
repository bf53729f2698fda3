"""The rules, one file an area; a new rule is a new function in its area's file and a row in no other place."""
