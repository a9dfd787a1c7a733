// Command protogen remakes the Go stubs of .proto files, with no compiler but Go's.
//
//	protogen FILE.proto ...
//
// For each file it parses the .proto and runs protoc-gen-go and protoc-gen-go-grpc, which must lie beside protogen's
// own executable. The stubs are written beside the .proto. Files of google/protobuf may be imported, others not.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: protogen FILE.proto ...")
		os.Exit(2)
	}
	for _, path := range os.Args[1:] {
		if err := generate(path); err != nil {
			fmt.Fprintf(os.Stderr, "protogen: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func generate(path string) error {
	folder, name := filepath.Split(path)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), name)
	if err != nil {
		return err
	}
	parameter := "paths=source_relative"
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      &parameter,
		ProtoFile:      withImports(files[0], nil, map[string]bool{}),
	})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := run(filepath.Join(filepath.Dir(self), plugin), request, folder); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// withImports appends the file to all, after the files that it imports, as a code generator expects them.
func withImports(f protoreflect.FileDescriptor, all []*descriptorpb.FileDescriptorProto,
	seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[f.Path()] {
		return all
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		all = withImports(f.Imports().Get(i).FileDescriptor, all, seen)
	}
	return append(all, protoutil.ProtoFromFileDescriptor(f))
}

// run runs one code generator and writes what it answers into the folder.
func run(plugin string, request []byte, folder string) error {
	cmd := exec.Command(plugin)
	cmd.Stdin = bytes.NewReader(request)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", *response.Error)
	}
	for _, f := range response.File {
		if err := os.WriteFile(filepath.Join(folder, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
