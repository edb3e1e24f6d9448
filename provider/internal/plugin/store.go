// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/statestore"
	"github.com/hashicorp/terraform-plugin-framework/statestore/schema"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// stateStore is the state store okara_oci. The framework creates one for each request.
type stateStore struct {
	*okara
	*repositories
}

// repositories holds the open repositories of one configuration.
type repositories struct {
	backend backendblock.Backend
	open    func(backendblock.Backend) (*statebackend.Store, error)

	mu     sync.Mutex // guards stores
	stores map[string]*statebackend.Store
}

func (r *repositories) storeAt(workspace string) (*statebackend.Store, workspaceRef, error) {
	b := r.backend.ForWorkspace(workspace)
	p := workspaceRef{repository: b.Repository, workspace: workspace}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stores[b.Repository]; s != nil {
		return s, p, nil
	}
	s, err := r.open(b)
	if err == nil {
		r.stores[b.Repository] = s
	}
	return s, p, err
}

// Metadata sets the name of the state store.
func (*stateStore) Metadata(_ context.Context, req statestore.MetadataRequest, resp *statestore.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_oci"
}

// Schema contains the arguments of backend "oci".
func (*stateStore) Schema(_ context.Context, _ statestore.SchemaRequest, resp *statestore.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Keeps states, their versions and their locks in an OCI registry. Experimental: the protocol may change, but the stored data will not.",
		Attributes:          storeAttributes(),
	}
}

// ValidateConfig reports mistakes before any request is sent.
func (*stateStore) ValidateConfig(_ context.Context, req statestore.ValidateConfigRequest, resp *statestore.ValidateConfigResponse) {
	if !req.Config.Raw.IsFullyKnown() {
		return
	}
	if _, err := readBackend(req.Config.Raw, os.Getenv); err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
	}
}

// Initialize reads the configuration. It sends no request to a registry.
func (s *stateStore) Initialize(_ context.Context, req statestore.InitializeRequest, resp *statestore.InitializeResponse) {
	b, err := readBackend(req.Config.Raw, os.Getenv)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
		return
	}
	resp.StateStoreData = &repositories{backend: b, open: s.okara.openStore, stores: map[string]*statebackend.Store{}}
}

// Configure takes what Initialize read. Before Initialize, only validation requests arrive.
func (s *stateStore) Configure(_ context.Context, req statestore.ConfigureRequest, _ *statestore.ConfigureResponse) {
	if r, ok := req.StateStoreData.(*repositories); ok {
		s.repositories = r
	}
}

// untilSignal returns a context for operations that may be aborted. Terraform sends StopProvider
// only while it plans and applies, but a terminal also sends its signal to this process.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// GetStates lists the workspaces that have a state. If each workspace has its own
// repository, only those that the tool has selected are checked.
func (s *stateStore) GetStates(ctx context.Context, _ statestore.GetStatesRequest, resp *statestore.GetStatesResponse) {
	ctx, stop := untilSignal(ctx)
	defer stop()
	names, err := s.workspaces(ctx)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
	}
	resp.StateIDs = names
}

func (s *stateStore) workspaces(ctx context.Context) ([]string, error) {
	if s.backend.Each() {
		return s.selectedWorkspaces(ctx)
	}
	store, _, err := s.storeAt("")
	if err != nil {
		return nil, err
	}
	var names []string
	for name, err := range store.Workspaces().All(ctx) {
		if errors.Is(err, oci.ErrNotFound) {
			break // nothing is stored yet
		}
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func (s *stateStore) selectedWorkspaces(ctx context.Context) ([]string, error) {
	var names []string
	for _, name := range knownWorkspaces() {
		store, _, err := s.storeAt(name)
		if err != nil {
			return nil, err
		}
		_, err = store.Current(ctx, name)
		if err == nil {
			names = append(names, name)
		} else if !errors.Is(err, oci.ErrNotFound) {
			return nil, err
		}
	}
	return names, nil
}

// knownWorkspaces returns the workspaces that the tool has selected, and the default one.
func knownWorkspaces() []string {
	names := append(backendblock.Selected(".", os.Getenv), "default")
	slices.Sort(names)
	return slices.Compact(names)
}

// Lock acquires the lock of a workspace, and waits for it up to lock_timeout.
func (s *stateStore) Lock(ctx context.Context, req statestore.LockRequest, resp *statestore.LockResponse) {
	ctx, stop := untilSignal(ctx)
	defer stop()
	l, err := s.acquire(ctx, req.StateID, req.Operation)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
		return
	}
	_, p, _ := s.storeAt(req.StateID) // acquire has opened the state
	s.locks.keep(p, l, func(err error) { s.logger.Error(err.Error()) })
	resp.LockID = l.Info().ID
}

// acquire acquires a lock. An attempt in progress is finished even if the tool is
// interrupted: only the waiting ends.
func (s *stateStore) acquire(ctx context.Context, workspace, operation string) (*statebackend.Lock, error) {
	store, _, err := s.storeAt(workspace)
	if err != nil {
		return nil, err
	}
	info := statebackend.NewLockInfo(operation, s.toolName())
	if page := backendblock.JobPage(os.Getenv); page != "" {
		info.Info += ", " + page
	}
	begin := time.Now()
	l, err := store.LockWithin(context.WithoutCancel(ctx), workspace, info, s.backend.LockTimeout, ctx.Done())
	if _, locked := errors.AsType[*statebackend.LockedError](err); locked && s.backend.LockTimeout > 0 {
		return nil, fmt.Errorf("%w\nwaited for %s of %s (lock_timeout)", err, time.Since(begin).Round(time.Second), s.backend.LockTimeout)
	}
	return l, err
}

// Unlock releases a lock of this process, or breaks one of another process.
func (s *stateStore) Unlock(ctx context.Context, req statestore.UnlockRequest, resp *statestore.UnlockResponse) {
	store, p, err := s.storeAt(req.StateID)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
		return
	}
	h := s.locks.lockOf(p)
	if h == nil || h.lock.Info().ID != req.LockID {
		if err := store.ForceUnlock(context.WithoutCancel(ctx), req.StateID, req.LockID); err != nil {
			resp.Diagnostics.Append(errorDiagnostic(err))
		}
		return
	}
	if err := h.lock.UnlockRetrying(ctx); err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
		return
	}
	s.locks.forget(p, h)
	if h.written.Load() {
		resp.Diagnostics.Append(s.replicate(ctx, req.StateID)...)
	}
}

// replicate updates the replicas. A replica that cannot be updated does not fail the run.
func (s *stateStore) replicate(ctx context.Context, workspace string) diag.Diagnostics {
	ctx, cancel := context.WithTimeout(ctx, backendblock.ReplicateLimit)
	defer cancel()
	var diags diag.Diagnostics
	for _, err := range s.backend.Replicate(ctx, workspace, s.okara.openStore) {
		diags.Append(warningDiagnostic(err))
	}
	return diags
}

// Read returns the current state, or nothing if there is none.
func (s *stateStore) Read(ctx context.Context, req statestore.ReadRequest, resp *statestore.ReadResponse) {
	ctx, stop := untilSignal(ctx)
	defer stop()
	state, err := s.readCurrent(ctx, req.StateID)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		resp.Diagnostics.Append(errorDiagnostic(err))
		return
	}
	resp.StateBytes = state
}

func (s *stateStore) readCurrent(ctx context.Context, workspace string) ([]byte, error) {
	store, p, err := s.storeAt(workspace)
	if err != nil {
		return nil, err
	}
	if h := s.locks.lockOf(p); h != nil {
		state, _, err := h.lock.Get(ctx)
		return state, err
	}
	state, _, err := store.Get(ctx, workspace)
	return state, err
}

// Write stores a state. Since all bytes have been received, it continues if the tool is
// interrupted or gone.
func (s *stateStore) Write(ctx context.Context, req statestore.WriteRequest, resp *statestore.WriteResponse) {
	ctx = context.WithoutCancel(ctx)
	behind, err := s.underLock(ctx, req.StateID, "write without a lock of the tool", func(l *statebackend.Lock) error {
		_, err := l.Put(ctx, req.StateBytes)
		return err
	})
	resp.Diagnostics.Append(behind...)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
	}
}

// DeleteState deletes a workspace. Its versions stay.
func (s *stateStore) DeleteState(ctx context.Context, req statestore.DeleteStateRequest, resp *statestore.DeleteStateResponse) {
	ctx = context.WithoutCancel(ctx)
	behind, err := s.underLock(ctx, req.StateID, "delete workspace", func(l *statebackend.Lock) error { return l.Delete(ctx) })
	resp.Diagnostics.Append(behind...)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(fmt.Errorf("deleting workspace %q: %w", req.StateID, err)))
	}
}

// underLock writes under the lock of this process. If the tool took none, a lock is held
// for this write only, and the replicas are updated at once. behind reports the replicas
// that could not be updated.
func (s *stateStore) underLock(ctx context.Context, workspace, operation string, do func(*statebackend.Lock) error) (behind diag.Diagnostics, err error) {
	_, p, err := s.storeAt(workspace)
	if err != nil {
		return nil, err
	}
	if h := s.locks.lockOf(p); h != nil {
		err = s.locks.guardWrite(func() error { return do(h.lock) })
		if err == nil {
			h.written.Store(true)
		}
		return nil, err
	}
	err = s.locks.guardWrite(func() error {
		l, err := s.acquire(ctx, workspace, operation)
		if err != nil {
			return err
		}
		return errors.Join(do(l), l.UnlockRetrying(ctx))
	})
	if err != nil {
		return nil, err
	}
	return s.replicate(ctx, workspace), nil
}
