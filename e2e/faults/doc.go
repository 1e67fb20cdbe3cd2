// Package faults breaks the machine under a real worker, one fault at a time, and
// looks at it from outside: what its clients get, what others get meanwhile, how
// long after the fault's end it is well again, and that it holds no more than before.
// docs/faults.md has the table of faults and right answers.
//
// The tests change things of the machine: they mount, make loop devices and control
// groups, trace processes and set two sysctls. They give all of it back, also when
// they are killed: the mounts are in a namespace of their own, and a process of its own
// restores the sysctls. All the same they run only with TALON_FAULTS=1 (make faults),
// and most of them only as root. What is missing is named by the skip.
package faults
