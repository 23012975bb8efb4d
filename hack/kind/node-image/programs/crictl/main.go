// SPDX-License-Identifier: Apache-2.0

// Command crictl is the small part of crictl that kind itself calls on a node:
// `crictl images` and `crictl inspecti REF`, with output that kind can parse.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const endpoint = "unix:///run/containerd/containerd.sock"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	images := cri.NewImageServiceClient(conn)
	switch {
	case len(args) == 1 && args[0] == "images":
		r, err := images.ListImages(ctx, &cri.ListImagesRequest{})
		if err != nil {
			return err
		}
		for _, i := range r.Images {
			fmt.Println(i.Id, i.Size, i.RepoTags, i.RepoDigests)
		}
		return nil
	case len(args) == 2 && args[0] == "inspecti":
		r, err := images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: args[1]}})
		if err != nil {
			return err
		}
		if r.Image == nil {
			return fmt.Errorf("no such image %q present", args[1])
		}
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"status": map[string]any{
			"id":          r.Image.Id,
			"repoTags":    r.Image.RepoTags,
			"repoDigests": r.Image.RepoDigests,
		}})
	}
	return errors.New("this crictl knows only: images, inspecti REF")
}
