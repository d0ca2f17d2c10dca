// Package house holds the tests that concern the repository as a whole: who may
// import whom, that what is exported is documented, and that no file speaks of
// the machine it was written on.
package house
