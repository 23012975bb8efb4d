// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// eventKeys are removed all at once: no component caches them.
	eventKeys = "/registry/events/"
	// calm is for how long data must stay the same to be taken for settled.
	calm = 400 * time.Millisecond
	// settleTimeout bounds the wait for that.
	settleTimeout = 2 * time.Minute
)

// ownLeases renew all the time, and are those of the API server itself.
const ownLeases = "/registry/leases/kube-system/"

// baseline is the data of a control plane at some time, by key of etcd. To restore it in etcd costs less than to delete objects one
// kind after the other, and needs no knowledge of the kinds: the watches of the API server pass the changes on.
type baseline map[string]etcdPair

// etcdPair is a pair of etcd's JSON API, which has bytes in base64 and numbers in quotes.
type etcdPair struct {
	Key      []byte `json:"key"`
	Value    []byte `json:"value"`
	Revision int64  `json:"mod_revision,string"`
}

type etcdRange struct {
	Key      []byte `json:"key"`
	RangeEnd []byte `json:"range_end,omitempty"`
	KeysOnly bool   `json:"keys_only,omitempty"`
}

// prefix is the range of the keys that begin with a string.
func prefix(s string, keysOnly bool) etcdRange {
	end := []byte(s)
	end[len(end)-1]++
	return etcdRange{Key: []byte(s), RangeEnd: end, KeysOnly: keysOnly}
}

// readBaseline waits until a control plane that has just started changes nothing any more, and returns its data.
func (c *Cluster) readBaseline(ctx context.Context) (baseline, error) {
	var last baseline
	err := settled(ctx, func() (bool, error) {
		now, err := readKeys(ctx, c.EtcdURL())
		same := len(now) == len(last)
		for key, pair := range now {
			same = same && last[key].Revision == pair.Revision
		}
		last = now
		return same, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the data of a new control plane: %w", err)
	}
	return readRange(ctx, c.EtcdURL(), false)
}

// settled polls until nothing has changed for a moment.
func settled(ctx context.Context, unchanged func() (bool, error)) error {
	since := time.Now()
	err := wait.PollUntilContextTimeout(ctx, calm/4, settleTimeout, true, func(context.Context) (bool, error) {
		same, err := unchanged()
		if !same {
			since = time.Now()
		}
		return time.Since(since) >= calm, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return errors.New("it does not settle")
	}
	return err
}

// readKeys returns the keys that are compared, without their values.
func readKeys(ctx context.Context, etcd string) (baseline, error) {
	keys, err := readRange(ctx, etcd, true)
	maps.DeleteFunc(keys, func(key string, _ etcdPair) bool { return !compared(key) })
	return keys, err
}

// compared reports whether a key is compared.
func compared(key string) bool {
	return !strings.HasPrefix(key, ownLeases) && !strings.HasPrefix(key, eventKeys)
}

// readRange returns all that the API server keeps.
func readRange(ctx context.Context, etcd string, keysOnly bool) (baseline, error) {
	var all struct{ Kvs []etcdPair }
	if err := callEtcd(ctx, etcd, "range", prefix("/registry/", keysOnly), &all); err != nil {
		return nil, err
	}
	b := baseline{}
	for _, pair := range all.Kvs {
		b[string(pair.Key)] = pair
	}
	return b, nil
}

// restore makes the data those of the baseline, again and again until the controllers have nothing left to react to.
func (b baseline) restore(ctx context.Context, etcd string) error {
	var last []string
	err := settled(ctx, func() (bool, error) {
		if err := callEtcd(ctx, etcd, "deleterange", prefix(eventKeys, false), nil); err != nil {
			return false, err
		}
		now, err := readKeys(ctx, etcd)
		if err != nil {
			return false, err
		}
		last = b.differences(now)
		return len(last) == 0, b.write(ctx, etcd, last)
	})
	if err != nil {
		return fmt.Errorf("restore the data of a control plane: %w: %v", err, last)
	}
	return nil
}

// differences returns the keys that were added, removed or changed since.
func (b baseline) differences(now baseline) (keys []string) {
	for key := range now {
		if b[key].Revision != now[key].Revision {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, there := now[key]; !there && compared(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// write restores some keys: each in a revision of its own, as the API server does.
func (b baseline) write(ctx context.Context, etcd string, keys []string) error {
	for _, key := range keys {
		pair, known := b[key]
		if !known {
			if err := callEtcd(ctx, etcd, "deleterange", etcdRange{Key: []byte(key)}, nil); err != nil {
				return err
			}
			continue
		}
		var reply struct {
			Header struct {
				Revision int64 `json:"revision,string"`
			}
		}
		if err := callEtcd(ctx, etcd, "put", map[string][]byte{"key": pair.Key, "value": pair.Value}, &reply); err != nil {
			return err
		}
		pair.Revision = reply.Header.Revision
		b[key] = pair
	}
	return nil
}

// callEtcd calls a method of etcd's key-value service by its JSON API.
func callEtcd(ctx context.Context, etcd, method string, request, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, etcd+"/v3/kv/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // as much of it as there is
		return fmt.Errorf("%s of etcd: %s: %s", method, resp.Status, text)
	}
	if reply == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(reply)
}
