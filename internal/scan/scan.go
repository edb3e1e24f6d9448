// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/files"
)

// Trivy is the name of the scanner whose options this package knows.
const Trivy = "trivy"

// Target is the kind of content of a directory.
type Target uint8

// The targets: a module's misconfiguration, known vulnerabilities of a provider's binary and of a
// source's dependencies.
const (
	Module Target = iota
	Provider
	Source
)

const (
	maxReport = 64 << 20
	maxStderr = 4 << 10
	// timeLimit ends a scanner that hangs; Trivy's own default is 5 minutes.
	timeLimit = 15 * time.Minute
)

// Errors of Run: ErrMissing, no scanner on PATH; ErrFailed, no usable report.
var (
	ErrMissing = errors.New("scanner not found")
	ErrFailed  = errors.New("scan failed")
)

// Options describes one scan.
type Options struct {
	Scanner  string // Trivy, or a command with arguments; no shell is involved
	Dir      string
	Target   Target
	Database string // Trivy: its cache directory; if set, nothing is downloaded
}

// Report is the result of a scan.
type Report struct {
	Tool      string // name of the scanner
	SARIF     []byte
	CycloneDX []byte // SBOM; nil if the scanner creates none
	Counts    Counts
}

// Run scans a directory. A report without findings is not an error.
func Run(ctx context.Context, o Options) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if o.Scanner == Trivy {
		return runTrivy(ctx, o)
	}
	args := strings.Fields(o.Scanner)
	if len(args) == 0 {
		return Report{}, fmt.Errorf("no scanner given: %w", ErrMissing)
	}
	sarif, err := runScanner(ctx, args[0], append(args[1:], o.Dir)...)
	if err != nil {
		return Report{}, err
	}
	return newReport(filepath.Base(args[0]), sarif)
}

func newReport(tool string, sarif []byte) (Report, error) {
	counts, err := parseSARIF(sarif)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w: %w", tool, err, ErrFailed)
	}
	return Report{Tool: tool, SARIF: sarif, Counts: counts}, nil
}

// runTrivy creates the report, and for a provider also the SBOM.
func runTrivy(ctx context.Context, o Options) (Report, error) {
	args := []string{"config", "--skip-check-update"}
	switch o.Target {
	case Provider:
		args = []string{"rootfs", "--scanners", "vuln"}
	case Source:
		args = []string{"fs", "--scanners", "vuln"}
	}
	args = append(args, "--quiet", "--exit-code", "0")
	if o.Database != "" {
		args = append(args, "--cache-dir", o.Database)
		if o.Target != Module {
			args = append(args, "--skip-db-update", "--skip-java-db-update", "--offline-scan")
		}
	}
	sarif, err := runScanner(ctx, Trivy, append(args, "--format", "sarif", o.Dir)...)
	if err != nil {
		return Report{}, err
	}
	report, err := newReport(Trivy, sarif)
	if err != nil || o.Target != Provider {
		return report, err
	}
	sbom := []string{"rootfs", "--quiet", "--format", "cyclonedx", "--skip-db-update", "--skip-java-db-update", "--offline-scan"}
	report.CycloneDX, err = runScanner(ctx, Trivy, append(sbom, o.Dir)...)
	return report, err
}

// runScanner returns the standard output of a command. It is killed when ctx ends.
func runScanner(ctx context.Context, name string, args ...string) (out []byte, err error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, ErrMissing)
	}
	dir, done, err := files.TempDir("") // Trivy keeps modules of registries there for ever, and asks for no newer ones
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout = &bounded{w: &stdout, left: maxReport}
	cmd.Stderr = &bounded{w: &stderr, left: maxStderr, drop: true}
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("running %s: %w: %s: %w", name, err, strings.TrimSpace(stderr.String()), ErrFailed)
	}
	return stdout.Bytes(), nil
}

// bounded fails, or drops the rest, after too many bytes.
type bounded struct {
	w    *bytes.Buffer
	left int
	drop bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := p[:min(len(p), b.left)]
	b.w.Write(keep)
	b.left -= len(keep)
	if len(keep) < len(p) && !b.drop {
		return len(keep), fmt.Errorf("the report is larger than %d bytes", maxReport)
	}
	return len(p), nil
}
