// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Location of the keys in the namespace of the operator.
const (
	KeysSecret      = "okara-run-keys"
	KeysKey         = "keys.json"
	IssuerConfigMap = "okara-run-issuer"
	IssuerKey       = "jwks.json"
)

// keepEvery is how often the keys are checked.
const keepEvery = 5 * time.Minute

// Start maintains the keys until ctx ends, as a part of a manager.
func (i *Issuer) Start(ctx context.Context) error {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for {
		if err := i.Keep(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "the keys of run tokens could not be checked")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// NeedLeaderElection returns true: only one process changes the keys.
func (i *Issuer) NeedLeaderElection() bool { return true }

// Keep makes, publishes and drops keys when due. After an interruption the next call finishes that:
// a key signs only once it is published.
func (i *Issuer) Keep(ctx context.Context) error {
	i.keeping.Lock()
	defer i.keeping.Unlock()
	now := i.o.Now()
	keys, err := i.changeKeys(ctx, func(r ring) (ring, error) { return r.rotate(now) })
	if err != nil {
		return fmt.Errorf("keys of run tokens: %w", err)
	}
	if err := i.publish(ctx, keys); err != nil {
		return fmt.Errorf("public keys of run tokens: %w", err)
	}
	if keys, err = i.changeKeys(ctx, func(r ring) (ring, error) { return r.withPublished(now), nil }); err != nil {
		return fmt.Errorf("keys of run tokens: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ring = keys
	return nil
}

// changeKeys applies how to the keys and writes the result if it differs.
func (i *Issuer) changeKeys(ctx context.Context, how func(ring) (ring, error)) (ring, error) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.o.Namespace, Name: KeysSecret}}
	var keys ring
	_, err := fluxobj.Write(ctx, i.o.Client, s, "", func(s *corev1.Secret) (err error) {
		if stored, ok := s.Data[KeysKey]; ok {
			if keys, err = parseRing(stored); err != nil {
				return fmt.Errorf("Secret %s/%s, %s: %w: delete the Secret to have new ones created", i.o.Namespace, KeysSecret, KeysKey, err)
			}
		}
		if keys, err = how(keys); err != nil {
			return err
		}
		b, err := keys.encodeRing()
		s.Data = map[string][]byte{KeysKey: b}
		return err
	})
	return keys, err
}

func (i *Issuer) publish(ctx context.Context, keys ring) error {
	b, err := json.Marshal(keys.publicKeys())
	if err != nil {
		return err
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: i.o.Namespace, Name: IssuerConfigMap}}
	_, err = fluxobj.Write(ctx, i.o.Client, m, "", func(m *corev1.ConfigMap) error {
		m.Data = map[string]string{IssuerKey: string(b)}
		m.BinaryData = nil
		return nil
	})
	return err
}
