// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

const (
	prefix  = "okara-record."
	dataKey = "record.json"
)

// Store reads and writes the records of a cluster.
type Store struct {
	Client    client.Client // reads the current objects, without a cache
	Namespace string        // of the operator
}

// Of identifies the object of a record.
type Of struct {
	Plural string // of its kind
	Key    client.ObjectKey
}

func (s Store) meta(of Of) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.Namespace, Name: prefix + of.Plural + "." + of.Key.Namespace + "." + of.Key.Name}
}

// Load reads an object's record, and the UID of what was made for it, or "".
func (s Store) Load(ctx context.Context, of Of, value any) (types.UID, error) {
	m := &corev1.ConfigMap{ObjectMeta: s.meta(of)}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if !fluxobj.Ours(m, "") {
		return "", &fluxobj.TakenError{Kind: "ConfigMap", Key: client.ObjectKeyFromObject(m)}
	}
	if err := json.Unmarshal([]byte(m.Data[dataKey]), value); err != nil {
		return "", fmt.Errorf("the record of %s %s: %w", of.Plural, of.Key, err)
	}
	return types.UID(m.Labels[v1alpha1.LabelRecord]), nil
}

// Save writes the record of an object.
func (s Store) Save(ctx context.Context, of Of, uid types.UID, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = fluxobj.Write(ctx, s.Client, &corev1.ConfigMap{ObjectMeta: s.meta(of)}, "", func(m *corev1.ConfigMap) error {
		m.Labels = map[string]string{v1alpha1.LabelManaged: "", v1alpha1.LabelRecord: string(uid)}
		m.Data = map[string]string{dataKey: string(b)}
		return nil
	})
	return err
}

// Remove deletes the record of an object if it has the given UID.
func (s Store) Remove(ctx context.Context, of Of, uid types.UID) error {
	m := &corev1.ConfigMap{ObjectMeta: s.meta(of)}
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(m), m)
	if err != nil || !fluxobj.Ours(m, "") || m.Labels[v1alpha1.LabelRecord] != string(uid) {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(s.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID}))
}
