// Package peerpb has the messages that workers send each other, generated from peer.proto. Only convert.go of peerwire uses it.
package peerpb
