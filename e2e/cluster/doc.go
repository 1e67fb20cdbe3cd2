// Package cluster breaks real workers that share limits, under a policy file with peers and under a real etcd, and the network between them, and has the
// workers' admission logs and the clients' own count of bytes judged: bench-excess is the driver and the judge, and its exit code the verdict. What
// took how long is printed and judges nothing.
//
// The tests run only with TALON_CLUSTER=1 (make cluster-faults): they take minutes.
package cluster
