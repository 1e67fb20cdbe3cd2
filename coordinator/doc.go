// Package coordinator says what the policy is: from a file, for one worker or a rack whose workers are given the same file.
//
// [Watch] tells when a file may have changed; what is in it is policy.Parse's, and what becomes of it the caller's. It knows nothing of a
// worker, serves no request, and detects no failures.
package coordinator
