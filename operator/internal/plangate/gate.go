// SPDX-License-Identifier: Apache-2.0

package plangate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// Path is the URL path of the gate.
const Path = "/plan"

// owner is the field owner of the gate's writes.
const owner = "okara-plan-gate"

// Gate is a webhook that judges plans. It may run on any number of replicas.
type Gate struct {
	client client.Client // reads the current objects, without a cache
	key    func() ([]byte, error)
	log    *slog.Logger
	busy   chan struct{} // capacity one, since a plan takes many times its size in memory
}

// New returns a gate for the Terraforms of a cluster. key returns the key of the digests.
func New(c client.Client, key func() ([]byte, error), log *slog.Logger) *Gate {
	return &Gate{client: c, key: key, log: log, busy: make(chan struct{}, 1)}
}

// answer is the response, which the expressions of the webhook evaluate.
type answer struct {
	Passed  bool   `json:"passed"`
	Message string `json:"message"`
}

// ServeHTTP judges a plan. Any status but 200 makes the plan fail, and be made again.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != Path {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST is allowed", http.StatusMethodNotAllowed)
		return
	}
	select {
	case g.busy <- struct{}{}:
		defer func() { <-g.busy }()
	case <-r.Context().Done():
		return
	}
	body, err := httpserve.ReadBody(w, r, MaxPayload)
	if err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	p, err := parsePayload(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := g.judgePlan(r.Context(), p)
	if err != nil {
		status := http.StatusInternalServerError
		if apierrors.IsNotFound(err) {
			status = http.StatusNotFound
		}
		g.log.Error("a plan was not evaluated", "namespace", p.Metadata.Namespace, "name", p.Metadata.Name, "error", err)
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(a); err != nil {
		g.log.Debug("a response was not delivered", "error", err)
	}
}

// judgePlan decides whether a plan passes, and records it.
func (g *Gate) judgePlan(ctx context.Context, p *payload) (answer, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(fluxexec.Terraforms())
	if err := g.client.Get(ctx, client.ObjectKey{Namespace: p.Metadata.Namespace, Name: p.Metadata.Name}, live); err != nil {
		return answer{}, err
	}
	if live.GetUID() != p.Metadata.UID {
		return answer{Message: "the plan belongs to a Terraform that no longer exists"}, nil
	}
	if live.GetDeletionTimestamp() != nil || p.Spec.Force || p.Spec.ApprovePlan == "auto" {
		return answer{Passed: true}, nil
	}
	key, err := g.key()
	if err != nil {
		return answer{}, err
	}
	digest, err := p.digest(key)
	if err != nil {
		return answer{}, err
	}
	gated := fluxexec.Gated{Digest: digest, Generation: p.Metadata.Generation}
	gated.Actions = p.Status.Plan.readActions()
	if p.Spec.ApprovePlan == "" {
		return answer{Passed: true}, g.recordSeen(ctx, live, gated)
	}
	if live.GetGeneration() == p.Metadata.Generation && live.GetAnnotations()[fluxexec.AnnotationApproved] == fluxexec.Approved(digest, p.Metadata.Generation) {
		return answer{Passed: true}, nil
	}
	gated.Refused = true
	g.log.Info("a plan was refused", "namespace", p.Metadata.Namespace, "name", p.Metadata.Name)
	return answer{Message: "the plan differs from the approved one, since the resources or the object have changed; a new plan follows, which can be approved"}, g.recordSeen(ctx, live, gated)
}

func (g *Gate) recordSeen(ctx context.Context, live *unstructured.Unstructured, seen fluxexec.Gated) error {
	b, err := json.Marshal(seen)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "annotations": map[string]any{fluxexec.AnnotationPlan: string(b)},
	}})
	if err != nil {
		return err
	}
	if err := g.client.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("recording the plan: %w", err)
	}
	return nil
}
