// SPDX-License-Identifier: Apache-2.0

// Package child is the process of one attempt: it takes the lock of the state, prepares the module,
// runs the tool beside a bridge that stores its state, and leaves log and result in the registry.
// It knows nothing of the server that started it but the order on its standard input.
package child
