// SPDX-License-Identifier: Apache-2.0

package scale_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"berth.dev/berth/test/testenv"
)

// writers is how many requests there are to etcd at a time.
const writers = 8

// pair is one of etcd's JSON API, which has bytes in base64.
type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// original is what etcd has of a namespace.
type original struct {
	name  string
	pairs []pair
}

func readNamespace(t *testing.T, w *testenv.World, name string) original {
	t.Helper()
	var all struct{ Kvs []pair }
	require.NoError(t, callEtcd(w, "range", map[string][]byte{"key": []byte("/registry/"), "range_end": []byte("/registry0")}, &all))
	o := original{name: name}
	for _, p := range all.Kvs {
		parts := strings.Split(string(p.Key), "/")
		if slices.Contains(parts, name) && parts[2] != "events" && parts[2] != "leases" {
			o.pairs = append(o.pairs, p)
		}
	}
	return o
}

// copyTo writes what a namespace has into another one. The texts that are replaced have the same length, so that they may stand in
// protobuf: the name of the namespace, the UIDs, and the nodes, of which each copy takes others of the same type and zone.
func (o original) copyTo(w *testenv.World, name string, n int, s size) error {
	var g errgroup.Group
	g.SetLimit(writers)
	for _, p := range o.pairs {
		g.Go(func() error {
			p.Key = bytes.ReplaceAll(p.Key, []byte(o.name), []byte(name))
			p.Value = bytes.ReplaceAll(p.Value, []byte(o.name), []byte(name))
			p.Value = uids.ReplaceAllFunc(p.Value, func(uid []byte) []byte { return append(fmt.Appendf(nil, "%08x", n), uid[8:]...) })
			p.Value = nodeNames.ReplaceAllFunc(p.Value, func(node []byte) []byte {
				kind, position, _ := strings.Cut(string(node), "-0") // on-demand has another dash
				of := s.otherNodes
				if kind == "spot" {
					of = s.spotNodes
				}
				i, _ := strconv.Atoi(position)
				return []byte(nodeName(kind, (i+3*n)%of))
			})
			return callEtcd(w, "put", p, nil)
		})
	}
	return g.Wait()
}

var (
	uids      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	nodeNames = regexp.MustCompile(`(spot|on-demand)-0[0-9]{3}`)
)

// callEtcd calls a method of etcd's key-value service.
func callEtcd(w *testenv.World, method string, request, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	resp, err := etcd.Post(w.Cluster.EtcdURL()+"/v3/kv/"+method, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body) // as much of it as there is
		return fmt.Errorf("%s of etcd: %s: %s", method, resp.Status, text)
	}
	if reply == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(reply)
}

// etcd keeps a connection for each writer.
var etcd = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
