// Command genproto writes peerwire/peerpb/peer.pb.go from peer.proto. It is the protobuf compiler and its Go plugin in one process, pinned in go.mod, so
// that nobody needs a protoc, and so that a test can tell whether the generated code is that of the file beside it.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const source, target = "peer.proto", "peer.pb.go"

func main() {
	dir := "peerpb" // go generate runs in peerwire
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	code, err := generate(dir)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, target), code, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "genproto:", err)
		os.Exit(1)
	}
}

// generate returns the Go code for the messages of dir.
func generate(dir string) ([]byte, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{dir}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), source)
	if err != nil {
		return nil, err
	}
	gen, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])},
		Parameter:      proto.String("paths=source_relative"),
	})
	if err != nil {
		return nil, err
	}
	internal_gengo.GenerateFile(gen, gen.Files[0])
	answer := gen.Response()
	if answer.Error != nil {
		return nil, fmt.Errorf("%s", *answer.Error)
	}
	return append(bytes.TrimRight([]byte(answer.File[0].GetContent()), "\n"), '\n'), nil
}
