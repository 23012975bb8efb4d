// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// PrebuiltEnv names an archive of Pack. Without it, the archive is the file PrebuiltName in the repository, if there is one.
const PrebuiltEnv = "BERTH_PREBUILT"

// packed are the programs of a local control plane, and kubectl.
var packed = append(ControlPlane(), Kubectl)

// PrebuiltName is the name of an archive for this machine.
func PrebuiltName() string {
	return "berth-controlplane_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
}

// Pack writes the programs of a local control plane to an archive, and builds them first if need be. A machine with the archive
// does not build them. Their names in it have the key of their versions: another version of a program is built all the same.
func Pack(ctx context.Context, out io.Writer, archive string) error {
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return err
	}
	partial := archive + ".partial"
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	if err := errors.Join(packAll(ctx, out, file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, archive)
}

func packAll(ctx context.Context, out, file io.Writer) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(file)
	w := tar.NewWriter(zipped)
	for _, name := range packed {
		program, err := built(ctx, out, name)
		if err != nil {
			return err
		}
		if err := packFile(w, cache, program); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), zipped.Close())
}

func packFile(w *tar.Writer, cache, program string) error {
	name, err := filepath.Rel(cache, program)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	// No times: the same programs give the same archive.
	header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o755, Size: int64(len(content))}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// prebuilt returns the archive that a machine has, "" for none.
func prebuilt(root string) (string, error) {
	if archive := os.Getenv(PrebuiltEnv); archive != "" {
		if !filepath.IsAbs(archive) { // each suite runs in a folder of its own
			return "", fmt.Errorf("%s is %q: it must be an absolute path", PrebuiltEnv, archive)
		}
		return archive, nil
	}
	if archive := filepath.Join(root, PrebuiltName()); exists(archive) {
		return archive, nil
	}
	return "", nil
}

// unpackPrebuilt writes a program of the archive that this machine has to a file. found is false if there is none.
func unpackPrebuilt(out io.Writer, root, name, to string) (found bool, err error) {
	archive, err := prebuilt(root)
	if archive == "" || err != nil {
		return false, err
	}
	if found, err = unpack(archive, name, to); err != nil {
		return false, fmt.Errorf("unpack %s from %s: %w", filepath.Base(name), archive, err)
	}
	if found {
		fmt.Fprintf(out, "unpacked %s from %s\n", filepath.Base(name), archive)
	}
	return found, nil
}

// unpack writes the program with a name from an archive to a file. found is false if the archive has none of that name.
func unpack(archive, name, to string) (found bool, err error) {
	file, err := os.Open(archive)
	if err != nil {
		return false, err
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		return false, err
	}
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if h.Name != filepath.ToSlash(name) {
			continue
		}
		program, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
		if err != nil {
			return false, err
		}
		_, err = io.CopyN(program, r, h.Size)
		if err == nil {
			_, err = io.Copy(io.Discard, zipped) // the checksum is at the end
		}
		return err == nil, errors.Join(err, program.Close())
	}
}
