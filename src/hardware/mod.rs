//! Cores, memory, CPU features (sysinfo), VRAM and load (NVML). Must never know models.
