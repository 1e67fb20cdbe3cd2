package sched

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package if a test leaves a goroutine behind. No test opens a file or a socket that outlives it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
