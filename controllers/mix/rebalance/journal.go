// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// ReasonUnrecorded means that the move could not be recorded for the next leader, so it is not begun.
	ReasonUnrecorded rebalance.Reason = "MoveUnrecorded"

	journalKey   = "moves"
	writerKey    = "writer"
	journalOwner = "berth-controller-moves"
	// forgetAfter is how long the record of a workload is kept that has no pods.
	forgetAfter = time.Hour
)

// journal is what a new leader has to know of moves, in memory and in a
// ConfigMap. It is written before an eviction, by server-side apply to the version
// that was read: a leader that another one has followed cannot write it, and so
// does not evict.
type journal struct {
	records map[policy.GroupKey]rebalance.Record
	// version is the resource version of the ConfigMap, "" while there is none.
	version string
	// writer tells this process from others.
	writer string
	// loaded is set while the version is known, restored once the records of earlier leaders are here, dirty while there is
	// something to write.
	loaded, restored, dirty bool
	// failed is the last error, so that it is logged once.
	failed string
}

func newJournal() *journal {
	return &journal{records: map[policy.GroupKey]rebalance.Record{}, writer: string(uuid.NewUUID())}
}

// recordOf is what is to be recorded of a workload.
func recordOf(e *workloads.Entry, now time.Time) rebalance.Record {
	w := e.Group.Workload
	r := rebalance.Record{
		Namespace: e.Group.Key.Namespace, ID: e.Group.Key.ID, Kind: w.Kind, Name: w.Name, Revision: w.Revision, Mix: e.Mix,
		Had: e.Had, Failures: e.Failures, Updated: now.Unix(),
	}
	if !e.RetryAt.IsZero() {
		r.RetryAt = e.RetryAt.Unix()
	}
	for _, m := range e.Moves {
		r.Moves = append(r.Moves, rebalance.RecordedMove{UID: string(m.UID), Name: m.Name, Started: m.Started.Unix(), Wrong: m.Wrong})
	}
	return r
}

// recall adds to an entry what is recorded of its workload. Whether the API
// server carried out what was recorded is not known.
func recall(e workloads.Entry, r rebalance.Record, now time.Time) workloads.Entry {
	e.Had, e.Failures = max(e.Had, r.Had), max(e.Failures, r.Failures)
	if at := time.Unix(r.RetryAt, 0); r.RetryAt > 0 && at.After(e.RetryAt) {
		e.RetryAt = at
	}
	known := moved(e.Moves)
	for _, m := range r.Moves {
		if uid := types.UID(m.UID); !known[uid] {
			e.Moves = append(e.Moves, workloads.Move{
				UID: uid, Namespace: r.Namespace, Name: m.Name, Started: time.Unix(m.Started, 0), Wrong: m.Wrong, DoubtUntil: now.Add(unseen),
			})
		}
	}
	return e
}

// note keeps the record of a workload up to date.
func (j *journal) note(e *workloads.Entry, now time.Time) {
	key, r := e.Group.Key, recordOf(e, now)
	old, there := j.records[key]
	switch {
	case !r.Worth() && !there, there && old.Same(&r):
	case !r.Worth():
		j.forget(key)
	default:
		j.records[key] = r
		j.dirty = true
	}
}

// forget drops the record of a workload.
func (j *journal) forget(key policy.GroupKey) {
	if _, there := j.records[key]; there {
		delete(j.records, key)
		j.dirty = true
	}
}

// loadJournal reads the journal once, and puts the moves that an earlier leader
// began on the board, so that the budgets count them from the first decision on.
func (p *pass) loadJournal(ctx context.Context) {
	j := p.journal
	if j.loaded || p.Journal.Name == "" {
		return
	}
	var object *corev1.ConfigMap
	err := p.bounded(ctx, func(ctx context.Context) (err error) {
		object, err = p.Client.CoreV1().ConfigMaps(p.Journal.Namespace).Get(ctx, p.Journal.Name, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		j.version = ""
	case err != nil:
		p.journalFailed(ctx, fmt.Errorf("read the journal of moves, ConfigMap %s: %w", p.Journal, err))
		return
	case j.restored && object.Data[writerKey] != j.writer:
		p.journalFailed(ctx, fmt.Errorf("read the journal of moves, ConfigMap %s: another leader has written it", p.Journal))
		return
	default:
		j.version = object.ResourceVersion
	}
	j.loaded = true
	if j.restored {
		j.dirty = true
		return
	}
	j.restored = true
	if object == nil {
		return
	}
	records, err := rebalance.DecodeJournal(object.Data[journalKey], p.now, p.MaxBackoff)
	if err != nil {
		p.journalFailed(ctx, err) // it is written over
	}
	for _, r := range records {
		p.restore(r)
	}
}

func (p *pass) restore(r rebalance.Record) {
	key := policy.GroupKey{Namespace: r.Namespace, ID: r.ID}
	e, known := p.Workloads.Get(key)
	if !known {
		e = workloads.Entry{Mix: r.Mix, Restored: true, Group: clusterstate.Group{
			Key: key, Policy: &policy.Policy{}, Workload: clusterstate.Workload{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Revision: r.Revision, UID: types.UID(r.ID)},
		}}
	}
	p.journal.records[key] = r
	p.Workloads.Put(recall(e, r, p.now))
	p.Changed(key)
}

// recordMove writes a move down before it is begun. It returns a hold if that is not possible.
func (p *pass) recordMove(ctx context.Context, e *workloads.Entry, v rebalance.Verdict, m workloads.Move) *workloads.Hold {
	with := *e
	with.Had = cmp.Or(e.Had, len(e.Group.Seats))
	with.Moves = append(append([]workloads.Move{}, e.Moves...), m)
	p.journal.note(&with, p.now)
	if err := p.writeJournal(ctx); err != nil {
		p.journal.note(e, p.now)
		return p.hold(v, ReasonUnrecorded, holdRefused, "%v", err)
	}
	return nil
}

// writeJournal writes what has changed.
func (p *pass) writeJournal(ctx context.Context) error {
	j := p.journal
	switch {
	case p.Journal.Name == "" || j.loaded && !j.dirty:
		return nil
	case !j.loaded:
		return errors.New(j.failed)
	}
	j.prune(p)
	records := make([]rebalance.Record, 0, len(j.records))
	for _, r := range j.records {
		records = append(records, r)
	}
	text, err := rebalance.EncodeJournal(records)
	if err != nil {
		return err
	}
	object := corev1apply.ConfigMap(p.Journal.Name, p.Journal.Namespace).WithData(map[string]string{journalKey: text, writerKey: j.writer}).
		WithLabels(map[string]string{"app.kubernetes.io/part-of": "berth"})
	if j.version != "" {
		object.WithResourceVersion(j.version)
	}
	var written *corev1.ConfigMap
	err = p.bounded(ctx, func(ctx context.Context) (err error) {
		written, err = p.Client.CoreV1().ConfigMaps(p.Journal.Namespace).Apply(ctx, object, metav1.ApplyOptions{FieldManager: journalOwner, Force: true})
		return err
	})
	if err != nil {
		// Another version, or none, or one of which the answer was lost: it is read again.
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || unanswered(err) {
			j.loaded = false
			p.Changed(everything)
		}
		err = fmt.Errorf("write the journal of moves, ConfigMap %s: %w", p.Journal, err)
		p.journalFailed(ctx, err)
		return err
	}
	j.version, j.dirty, j.failed = written.ResourceVersion, false, ""
	return nil
}

// prune forgets workloads that have had no pods for long.
func (j *journal) prune(p *pass) {
	for key, r := range j.records {
		if _, known := p.Workloads.Get(key); !known && p.now.Sub(time.Unix(r.Updated, 0)) > max(forgetAfter, 2*p.MaxBackoff) {
			delete(j.records, key)
		}
	}
}

// journalFailed logs an error once.
func (p *pass) journalFailed(ctx context.Context, err error) {
	if text := err.Error(); text != p.journal.failed {
		p.journal.failed = text
		log.FromContext(ctx).Error(err, "Cannot keep the journal of moves: nothing is moved without it")
	}
}
