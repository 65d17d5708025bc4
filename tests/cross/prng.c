/* bcryptprimitives.dll for Wine before version 9: random bytes, by the older function. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID to, ULONG bytes);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T bytes) {
  return SystemFunction036(to, bytes);
}
