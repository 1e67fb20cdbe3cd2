// Package uring is a ring of Linux's io_uring for one thread.
package uring
