// SPDX-License-Identifier: Apache-2.0

// Command protos compiles .proto files to Go without protoc: it compiles them itself, and hands the result to the plugins
// protoc-gen-go and protoc-gen-go-grpc, which write a file beside each .proto. Usage:
//
//	protos -plugins DIRECTORY -import DIRECTORY FILE...
//	protos -docs -import DIRECTORY FILE...
//
// The second prints the reference of the services instead, as Markdown.
// Files are named relative to the import directory. The same input gives the same bytes.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// parameter has output go beside the source, and leaves it to the go command how modules are called.
const parameter = "paths=source_relative"

func main() {
	plugins := flag.String("plugins", "", "The directory with protoc-gen-go and protoc-gen-go-grpc.")
	docs := flag.Bool("docs", false, "Print the reference of the services of the files, and write nothing.")
	root := flag.String("import", ".", "The directory that the files are named relative to.")
	flag.Parse()
	if err := run(context.Background(), *docs, *plugins, *root, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "protos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, docs bool, plugins, root string, files []string) error {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		// Comments become those of the Go code.
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return err
	}
	if docs {
		return writeDocs(os.Stdout, compiled)
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: proto.String(parameter)}
	seen := map[string]bool{}
	for _, f := range compiled {
		addWithImports(request, f, seen)
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(ctx, filepath.Join(plugins, plugin), root, request); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// addWithImports adds a file after all that it imports, as plugins require it.
func addWithImports(request *pluginpb.CodeGeneratorRequest, f protoreflect.FileDescriptor, seen map[string]bool) {
	if seen[f.Path()] {
		return
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		addWithImports(request, f.Imports().Get(i).FileDescriptor, seen)
	}
	request.ProtoFile = append(request.ProtoFile, descriptor(f))
}

// descriptor prefers what the compiler made, which has the comments.
func descriptor(f protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	if r, ok := f.(interface {
		FileDescriptorProto() *descriptorpb.FileDescriptorProto
	}); ok {
		return r.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(f)
}

func generate(ctx context.Context, plugin, root string, request *pluginpb.CodeGeneratorRequest) error {
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.File {
		if err := os.WriteFile(filepath.Join(root, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
