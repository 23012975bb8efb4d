// SPDX-License-Identifier: Apache-2.0

// Command imagetar writes container images, each a single layer made from a
// directory, into one OCI image layout tar that `ctr images import` and
// `docker load` (25 and later) read. It needs no container engine and gives the
// same digests for the same files.
//
//	imagetar OUT.tar SPEC.json
//
// SPEC.json is a list of
// {"names": [...], "root": "dir", "entrypoint": [...], "env": [...], "version": "..."}.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

type spec struct {
	Names      []string `json:"names"`
	Root       string   `json:"root"`
	Entrypoint []string `json:"entrypoint"`
	Env        []string `json:"env"`
	Version    string   `json:"version"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    map[string]string `json:"platform,omitempty"`
}

// epoch replaces every time stamp, so that digests depend on content alone.
var epoch = time.Unix(0, 0).UTC()

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: imagetar OUT.tar SPEC.json")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(out, specFile string) error {
	raw, err := os.ReadFile(specFile)
	if err != nil {
		return err
	}
	var specs []spec
	if err := json.Unmarshal(raw, &specs); err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	w := &layout{tw: tar.NewWriter(f), seen: map[string]bool{}}
	index := []descriptor{}
	for _, s := range specs {
		d, err := w.image(s)
		if err != nil {
			return fmt.Errorf("%v: %w", s.Names, err)
		}
		for _, name := range s.Names {
			named := d
			named.Annotations = map[string]string{
				"io.containerd.image.name":          name,
				"org.opencontainers.image.ref.name": name,
			}
			index = append(index, named)
		}
	}
	if err := w.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	b, err := json.Marshal(map[string]any{
		"schemaVersion": 2,
		"mediaType":     "application/vnd.oci.image.index.v1+json",
		"manifests":     index,
	})
	if err != nil {
		return err
	}
	if err := w.file("index.json", b); err != nil {
		return err
	}
	if err := w.tw.Close(); err != nil {
		return err
	}
	return f.Close()
}

type layout struct {
	tw   *tar.Writer
	seen map[string]bool
}

func (l *layout) file(name string, b []byte) error {
	if err := l.tw.WriteHeader(&tar.Header{
		Name: name, Mode: 0o644, Size: int64(len(b)), ModTime: epoch, Typeflag: tar.TypeReg,
	}); err != nil {
		return err
	}
	_, err := l.tw.Write(b)
	return err
}

func (l *layout) blob(mediaType string, b []byte) (descriptor, error) {
	sum := sha256.Sum256(b)
	name := hex.EncodeToString(sum[:])
	d := descriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: int64(len(b))}
	if l.seen[name] {
		return d, nil
	}
	l.seen[name] = true
	return d, l.file("blobs/sha256/"+name, b)
}

func (l *layout) json(mediaType string, v any) (descriptor, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(mediaType, b)
}

func (l *layout) image(s spec) (descriptor, error) {
	var packed bytes.Buffer
	gz, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return descriptor{}, err
	}
	diffID := sha256.New()
	if err := writeLayer(io.MultiWriter(gz, diffID), s.Root); err != nil {
		return descriptor{}, err
	}
	if err := gz.Close(); err != nil {
		return descriptor{}, err
	}
	layer, err := l.blob("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())
	if err != nil {
		return descriptor{}, err
	}
	env := s.Env
	if len(env) == 0 {
		env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	config, err := l.json("application/vnd.oci.image.config.v1+json", map[string]any{
		"created":      epoch.Format(time.RFC3339),
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": s.Entrypoint,
			"Env":        env,
			"WorkingDir": "/",
			"Labels":     map[string]string{"org.opencontainers.image.version": s.Version},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(diffID.Sum(nil))}},
		"history": []map[string]any{{"created": epoch.Format(time.RFC3339), "created_by": "imagetar"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.json("application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2,
		"mediaType":     "application/vnd.oci.image.manifest.v1+json",
		"config":        config,
		"layers":        []descriptor{layer},
	})
	d.Platform = map[string]string{"os": "linux", "architecture": runtime.GOARCH}
	return d, err
}

// writeLayer writes everything under root as a tar, in name order, owned by root.
func writeLayer(w io.Writer, root string) error {
	tw := tar.NewWriter(w)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name = rel
		if e.IsDir() {
			h.Name += "/"
		}
		h.ModTime, h.AccessTime, h.ChangeTime = epoch, time.Time{}, time.Time{}
		h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
		h.Format = tar.FormatPAX
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(tw, f)
		return err
	})
	if err != nil {
		return err
	}
	return tw.Close()
}
