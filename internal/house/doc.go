// Package house has the tests of the repository as a whole: which folders may import
// which, that exported names are documented, and that no file has a path of a
// developer's machine.
package house
