// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// method is a writing method of a service, called by many at the same time for one object.
type method struct {
	name string
	// before makes what the calls find.
	before func(t *testing.T)
	// call sends a request of which each part that can differ has the number of the request.
	call func(request string) error
	// refusals are the codes of calls that did not change anything, beside OK.
	refusals []codes.Code
	// stored returns the requests that the parts of the object are of, nil if there is no object.
	stored func(t *testing.T) []string
	// once is set if at most one call is OK, and gone if there is no object afterwards.
	once, gone bool
	// keeps is set if the calls leave the parts as they were before.
	keeps bool
}

// before is the request of an object that is there before the calls.
const before = "before"

// answer is what a caller got.
type answer struct {
	request string
	code    codes.Code
	err     error
}

// lost are the codes of calls that may have been carried out: the program was killed, or the API server did not answer in time.
var lost = []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled}

// callAll sends the requests at the same time. After each answer it calls ended.
func (m *method) callAll(requests []string, ended func()) []answer {
	answers := make([]answer, len(requests))
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i, request := range requests {
		all.Go(func() {
			<-begin
			err := m.call(request)
			answers[i] = answer{request, status.Code(err), err}
			ended()
		})
	}
	close(begin)
	all.Wait()
	return answers
}

// judge is the one validator of all methods: what is stored is one caller's whole request, and that caller was answered OK. With
// faults the answer may also be lost.
func (m *method) judge(t *testing.T, answers []answer, faults bool) {
	t.Helper()
	ok, missed := 0, 0
	by := map[string][]codes.Code{}
	for _, a := range answers {
		by[a.request] = append(by[a.request], a.code)
		switch {
		case a.code == codes.OK:
			ok++
		case faults && slices.Contains(lost, a.code):
			missed++
		default:
			require.Contains(t, m.refusals, a.code, "%s: %v", m.name, a.err)
		}
	}
	if m.once {
		assert.LessOrEqual(t, ok, 1, m.name)
	}
	require.Positive(t, ok+missed, "%s: at least one is carried out", m.name)
	parts := m.stored(t)
	if m.gone {
		assert.Empty(t, parts, m.name)
		return
	}
	if len(parts) == 0 {
		require.Zero(t, ok, "%s: nothing is stored although a caller was answered OK", m.name)
		return
	}
	for _, part := range parts {
		require.Equal(t, parts[0], part, "%s: the parts of what is stored are of several requests: %v", m.name, parts)
	}
	if m.keeps {
		assert.Equal(t, before, parts[0], m.name)
		return
	}
	codesOf, sent := by[parts[0]]
	if parts[0] == before && ok == 0 {
		return
	}
	require.True(t, sent, "%s: no request sent what is stored: %v", m.name, parts)
	is := func(c codes.Code) bool { return c == codes.OK || faults && slices.Contains(lost, c) }
	assert.True(t, slices.ContainsFunc(codesOf, is), "%s: what is stored is that of a caller who was answered %v", m.name, codesOf)
}
