package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedCodeIsCurrent regenerates the messages and compares.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	dir := filepath.Join("..", "peerpb")
	want, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, target))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what %s makes: run go generate ./peerwire", target, source)
	}
}
