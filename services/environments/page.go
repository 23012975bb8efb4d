// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

const (
	defaultPageSize, maxPageSize = 50, 500
	// maxToken bounds what is decoded of a token; one of ours is far shorter.
	maxToken = 4096

	filterName, filterStatus = "name", "status"
	statusPrefix             = "ENVIRONMENT_STATUS_"
)

// query is what a list requests.
type query struct {
	size   int
	after  string // the id of the last environment of the page before
	match  func(*environment) bool
	filter []byte // the hash of namespace and filters, by which a token is known as one of this list
}

func (c *service) query(namespace string, req *schedulerv1.ListEnvironmentsRequest) (*query, error) {
	size := int(req.GetPageSize())
	switch {
	case size < 0:
		return nil, server.InvalidField("page_size", fmt.Sprintf("is %d, and must not be negative", size))
	case size == 0:
		size = defaultPageSize
	}
	match, err := matcher(req.GetFilters())
	if err != nil {
		return nil, err
	}
	q := &query{size: min(size, maxPageSize), match: match}
	if q.filter, err = hashOf(namespace, req.GetFilters()); err != nil {
		return nil, err
	}
	if req.GetPageToken() != "" {
		q.after, err = c.tokens.read(req.GetPageToken(), q.filter)
	}
	return q, err
}

// matcher compiles filters, all of which must hold: labels of the client's, but for the two names that mean something else.
func matcher(filters map[string]string) (func(*environment) bool, error) {
	text, byStatus := filters[filterStatus]
	var status schedulerv1.EnvironmentStatus
	if byStatus {
		name := strings.ToUpper(strings.TrimSpace(text))
		n, known := schedulerv1.EnvironmentStatus_value[statusPrefix+strings.TrimPrefix(name, statusPrefix)]
		status = schedulerv1.EnvironmentStatus(n)
		if !known || status == schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_UNSPECIFIED {
			return nil, server.InvalidField("filters["+filterStatus+"]", fmt.Sprintf("is %q, which is no EnvironmentStatus", text))
		}
	}
	return func(e *environment) bool {
		for key, want := range filters {
			have, given := "", true
			switch key {
			case filterName:
				have = nameOf(e)
			case filterStatus:
				if statusOf(e) != status {
					return false
				}
				continue
			default:
				var v v1alpha1.AttributeValue
				v, given = e.Spec.Labels[key]
				have = string(v)
			}
			if !given || have != want {
				return false
			}
		}
		return true
	}, nil
}

func hashOf(namespace string, filters map[string]string) ([]byte, error) {
	b, err := json.Marshal(struct { // in the order of the keys
		Namespace string
		Filters   map[string]string
	}{namespace, filters})
	if err != nil {
		return nil, fmt.Errorf("encode the filters: %w", err)
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}

// page cuts out of all that match what a query requests, and returns what the next page comes after: "" at the end.
func (q *query) page(all []*environment) (page []*environment, next string) {
	slices.SortFunc(all, func(a, b *environment) int { return strings.Compare(a.Name, b.Name) })
	// What is gone since then does not matter: a place in the order is left.
	from, found := slices.BinarySearchFunc(all, q.after, func(e *environment, id string) int { return strings.Compare(e.Name, id) })
	if found {
		from++
	}
	page = all[from:]
	if len(page) <= q.size {
		return page, ""
	}
	page = page[:q.size]
	return page, page[len(page)-1].Name
}

// tokens makes the tokens of pages and verifies them. The key is the same in all replicas: the next page may be another's.
type tokens []byte

type token struct {
	After  string `json:"a"`
	Filter []byte `json:"f"`
	Sum    []byte `json:"s"`
}

func (k tokens) sum(t *token) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write(t.Filter) // of one length always, so that the two cannot be cut elsewhere
	mac.Write([]byte(t.After))
	return mac.Sum(nil)
}

func (k tokens) write(after string, filter []byte) (string, error) {
	t := token{After: after, Filter: filter}
	t.Sum = k.sum(&t)
	b, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("encode a page token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

func (k tokens) read(text string, filter []byte) (after string, err error) {
	var t token
	if len(text) <= maxToken {
		b, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || json.Unmarshal(b, &t) != nil {
			t = token{}
		}
	}
	if len(t.Filter) != sha256.Size || !hmac.Equal(t.Sum, k.sum(&t)) {
		return "", server.InvalidField("page_token", "is no next_page_token of this service")
	}
	if !hmac.Equal(t.Filter, filter) {
		return "", server.InvalidField("page_token", "is of a list of another namespace, or with other filters")
	}
	return t.After, nil
}
