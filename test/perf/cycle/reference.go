// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	local "berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builds"
	"berth.dev/berth/test/perf/bench"
)

// The peers of Kubernetes 1.34 are processes of this suite as it was at the last commit that was built with it.
const (
	reference       = "1692b8ec41e2e8334119489d6808565e87ae9ec1"
	referenceSuffix = "-1.34"
)

// programOf returns the program that a peer is a process of, and the peer's name there.
func programOf(ctx context.Context, peer string) (program, name string, err error) {
	name, older := strings.CutSuffix(peer, referenceSuffix)
	if !older {
		return os.Args[0], peer, nil
	}
	root, err := bench.Root()
	if err != nil {
		return "", "", err
	}
	files, err := builds.Files(ctx, root, reference)
	if err != nil {
		return "", "", err
	}
	program = filepath.Join(files, "cycle.test")
	if _, err := os.Stat(program); err == nil { // the files of a commit do not change
		return program, name, nil
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./test/perf/cycle")
	build.Dir = files
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -trimpath -tags="+local.BuildTags)
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build %s: %w: %s", peer, err, out)
	}
	return program, name, nil
}
